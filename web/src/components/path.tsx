/** A dotted name that breaks at its dots. */

export function Path({ of }: { readonly of: string }) {
  const parts = of.split(".");
  return (
    <>
      {parts.map((part, index) => (
        <span key={index}>
          {part}
          {index < parts.length - 1 && (
            <>
              .<wbr />
            </>
          )}
        </span>
      ))}
    </>
  );
}
