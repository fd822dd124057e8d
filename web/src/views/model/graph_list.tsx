/** What a graph shows, as a table: for whoever does not see the picture, and to copy from. */

import type { GraphNode } from "../../api/types";
import { TableFrame } from "../../components/page";
import * as format from "../../format";
import { measured, measureText, TRAINED, trainedOf } from "../../graph/colours";
import { around, type Box } from "../../graph/tree";
import { useKept } from "../../router";

interface BoxListProps {
  readonly seen: readonly Box[];
  readonly root: Box;
  readonly open: ReadonlySet<string>;
  readonly nodes: readonly GraphNode[];
  readonly onToggle: (id: string) => void;
  readonly onShow: (box: Box) => void;
}

const PAGE = 100;

export function BoxList({ seen, root, open, nodes, onToggle, onShow }: BoxListProps) {
  const [shown, setShown] = useKept("graph list", false);
  const [most, setMost] = useKept("graph list rows", PAGE);
  return (
    <details open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>The same as a list</summary>
      {shown && (
        <>
          <TableFrame label="Boxes of the graph">
            <table>
              <thead>
                <tr>
                  <th scope="col">What</th>
                  <th scope="col">Phase</th>
                  <th scope="col" class="number">
                    Expected time
                  </th>
                  <th scope="col" class="number">
                    Operations
                  </th>
                  <th scope="col" class="number">
                    Bytes of results
                  </th>
                  <th scope="col">Parameters</th>
                </tr>
              </thead>
              <tbody>
                {seen.slice(0, most).map((box) => (
                  <tr key={box.id}>
                    <td class="mono wrap">
                      <Indent depth={around(box).length - around(root).length - 1} />
                      {!box.node && (
                        <button
                          type="button"
                          class="link"
                          aria-expanded={open.has(box.id)}
                          aria-label={`${open.has(box.id) ? "Fold" : "Unfold"} ${box.path || box.label}`}
                          onClick={() => onToggle(box.id)}
                        >
                          {open.has(box.id) ? "−" : "+"}
                        </button>
                      )}{" "}
                      <button type="button" class="link" onClick={() => onShow(box)}>
                        {box.node ? `${box.node.op} ${box.node.name}` : `${box.label}, ${box.nodes.length} nodes`}
                      </button>
                    </td>
                    <td>{box.phase}</td>
                    <td class="number">{measureText(measured(box, nodes, "time"), "time")}</td>
                    <td class="number">{format.count(measured(box, nodes, "operations"))}</td>
                    <td class="number">{format.bytes(measured(box, nodes, "bytes"))}</td>
                    <td>{TRAINED[trainedOf(box, nodes)]}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableFrame>
          {seen.length > most && (
            <button type="button" class="button" onClick={() => setMost(most + PAGE)}>
              Show more of {seen.length}
            </button>
          )}
        </>
      )}
    </details>
  );
}

const Indent = ({ depth }: { readonly depth: number }) => <span aria-hidden="true">{"\u2003".repeat(depth)}</span>;
