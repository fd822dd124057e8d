/** Deleting a model, from the list and from its page. */

import type { Model } from "../../api/types";
import { DeleteButton } from "../../components/delete_button";
import { whyNotWrite } from "../uploads/panel";

interface DeleteModelProps {
  readonly model: Model;
  readonly quiet?: boolean;
  readonly onDeleted: () => void;
}

export function DeleteModel({ model, quiet = false, onDeleted }: DeleteModelProps) {
  return (
    <DeleteButton
      quiet={quiet}
      what={`${model.name}, version ${model.version}`}
      warning="Its file is removed from the service, unless something else uses it. The version's number is not given again."
      path={`/models/${model.id}`}
      why={whyNotWrite() ?? whyNotDeleted(model)}
      onDeleted={onDeleted}
    />
  );
}

function whyNotDeleted({ builds }: Model): string | null {
  if (builds === 0) return null;
  return builds === 1 ? "It has a build; delete that first." : `It has ${builds} builds; delete them first.`;
}
