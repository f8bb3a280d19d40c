import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Confirm } from "../../components/confirm.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useLoad } from "../../data/load.ts";
import { environments } from "../../state/clients.ts";
import { loadEnvironments } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, navigate } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { EnvironmentForm } from "./environment-form.tsx";
import { SigningSecretsPart } from "./signing-secrets-part.tsx";

/** The settings of one environment. */
export function EnvironmentPage({ values: { name = "" } }: PageProps) {
  const { value, fault, reload } = useLoad((signal) => environments.getEnvironment({ name }, { signal }), [name]);
  const environment = value?.environment;
  return (
    <PageFrame
      title={name}
      above={[["Environments", linkTo("/environments")]]}
      lead={environment?.declared ? "The configuration file declares this environment." : undefined}
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {environment === undefined && fault === undefined && <Skeleton lines={8} />}
      {environment !== undefined && <Settings environment={environment} reload={reload} />}
    </PageFrame>
  );
}

interface SettingsProps {
  readonly environment: Environment;
  readonly reload: () => void;
}

function Settings({ environment, reload }: SettingsProps) {
  const { name, declared } = environment;
  const isDeleting = useSignal(false);
  return (
    <>
      <div class="columns">
        <div class="card">
          <EnvironmentForm key={String(environment.revision)} environment={environment} onSaved={reload} />
        </div>
        <div class="card">
          <Facts
            rows={[
              [
                "Managed in",
                <Badge key="by" tone={declared ? "info" : "quiet"}>
                  {declared ? "Configuration file" : "Here"}
                </Badge>,
              ],
              ["ID", <CopyField key="id" text={environment.id} label="ID" />],
              ["Created", <Time key="created" at={environment.createdAt} />],
              ["Changed", <Time key="changed" at={environment.updatedAt} />],
              [
                "Keys",
                <a key="keys" href={linkTo("/environments", { env: name, tab: "keys", of: name })}>
                  Show the keys
                </a>,
              ],
              [
                "Deliveries",
                <a key="destinations" href={linkTo("/destinations", { env: name })}>
                  Test and pause
                </a>,
              ],
            ]}
          />
        </div>
      </div>
      {may(Scope.ADMIN) ? (
        <SigningSecretsPart environment={name} />
      ) : (
        <Section title="Signing secrets">
          <Notice>Signing secrets need a key with the scope admin.</Notice>
        </Section>
      )}
      <Section title="Delete the environment">
        <p class="section-lead quiet">
          {declared
            ? "The configuration file declares this environment. Remove it there first."
            : "Deletes the environment with its keys and signing secrets. Its integrations must be deleted before."}
        </p>
        <p>
          <Button kind="danger" needs={Scope.ADMIN} isDisabled={declared} onClick={() => (isDeleting.value = true)}>
            Delete environment
          </Button>
        </p>
      </Section>
      {isDeleting.value && (
        <Confirm
          title={`Delete the environment ${name}?`}
          verb="Delete environment"
          isDanger
          typed={name}
          done={`Deleted the environment ${name}.`}
          onClose={() => (isDeleting.value = false)}
          act={async () => {
            await environments.deleteEnvironment({ name, expectedRevision: environment.revision });
            await loadEnvironments();
            navigate("/ui/environments");
          }}
        >
          <p>Its keys stop working within a second. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}
