/** The uploaded models. */

import type { Model } from "../api/types";
import { Ago } from "../components/ago";
import { Empty, Loaded, Page, Section, TableFrame } from "../components/page";
import { curl } from "../commands";
import * as format from "../format";
import { useList } from "../data";
import { link } from "../router";
import { More } from "./tables";

export function ModelsView() {
  const { of, more } = useList<Model>("/models", 10_000);
  return (
    <Page title="Models" command={curl("/models")}>
      <Section title="All models">
        <Loaded of={of} what="models">
          {(models) =>
            models.length === 0 ? (
              <Empty title="No models yet.">
                <p>
                  Upload an ONNX file: <code>POST /v1/uploads</code>, <code>PATCH</code> its bytes, then{" "}
                  <code>POST /v1/models</code>.
                </p>
              </Empty>
            ) : (
              <TableFrame label="Models">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">Model</th>
                      <th scope="col" class="number">
                        Size
                      </th>
                      <th scope="col">SHA-256</th>
                      <th scope="col">Uploaded</th>
                    </tr>
                  </thead>
                  <tbody>
                    {models.map((model) => (
                      <tr key={model.id}>
                        <td>
                          <a href={link.model(model.id)}>{model.name}</a>
                        </td>
                        <td class="number">{format.bytes(model.size)}</td>
                        <td class="mono" title={model.digest}>
                          {format.shortDigest(model.digest)}
                        </td>
                        <td>
                          <Ago time={model.created_at} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </TableFrame>
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}
