import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/**", "test-results/**", "src/api/schema.ts"] },
  ...tseslint.configs.strict,
  {
    files: ["src/**/*.{ts,tsx}"],
    rules: {
      eqeqeq: "error",
      "max-lines": ["error", 400],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text from the server is never parsed as HTML." },
      ],
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Text from the server is never parsed as HTML.",
        },
      ],
    },
  },
);
