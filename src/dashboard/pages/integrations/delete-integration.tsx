import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Button } from "../../components/button.tsx";
import { Confirm } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { counted } from "../../data/format.ts";
import { integrations } from "../../state/clients.ts";
import { linkTo, navigate } from "../../state/router.ts";
import { countOf, type KnownCounts } from "./connection-counts.tsx";

interface DeleteIntegrationProps {
  readonly integration: Integration;
  readonly counts: KnownCounts;
}

/** The end of the settings: what cannot be undone. */
export function DeleteIntegration({ integration, counts }: DeleteIntegrationProps) {
  const isAsked = useSignal(false);
  return (
    <div class="card delete-part">
      <div>
        <h2>Delete this integration</h2>
        <p class="quiet">Only possible without connections. Its settings and secrets are lost.</p>
      </div>
      <Button kind="danger" onClick={() => (isAsked.value = true)} needs={Scope.INTEGRATIONS_WRITE}>
        Delete integration
      </Button>
      {isAsked.value && (
        <DeleteQuestion integration={integration} counts={counts} onClose={() => (isAsked.value = false)} />
      )}
    </div>
  );
}

interface DeleteQuestionProps extends DeleteIntegrationProps {
  readonly onClose: () => void;
}

/** Deletes an integration that has no connections; else says how many must go first. */
function DeleteQuestion({ integration, counts, onClose }: DeleteQuestionProps) {
  const { environment, key, revision } = integration;
  const count = countOf(counts.byIntegration?.get(key));
  if (count > 0) {
    return (
      <Dialog title={`${key} has ${counted(count, "connection")}`} onClose={onClose}>
        <p>
          An integration with connections cannot be deleted: your users would lose them without a word. Delete its
          connections first.
        </p>
        <div class="form-actions">
          <Button onClick={() => navigate(linkTo("/connections", { integration: key }))}>Show the connections</Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Confirm
      title={`Delete ${key}?`}
      verb="Delete integration"
      isDanger
      typed={key}
      act={async () => {
        await integrations.deleteIntegration({ environment, key, expectedRevision: revision });
        navigate(linkTo("/integrations"));
      }}
      done={`Deleted ${key}`}
      onClose={onClose}
    >
      <p>It has no connections. Its settings and secrets are lost. This cannot be undone.</p>
    </Confirm>
  );
}
