import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { environments } from "../../state/clients.ts";
import { loadEnvironments } from "../../state/environment.ts";
import { may } from "../../state/session.ts";

interface EnvironmentFormProps {
  readonly environment: Environment;
  readonly onSaved: () => void;
}

const linesOf = (text: string): string[] =>
  text
    .split(/[\s,]+/)
    .map((line) => line.trim())
    .filter((line) => line !== "");

/** The forward URLs and allowed origins. Fields that the configuration declares cannot be changed here. */
export function EnvironmentForm({ environment, onSaved }: EnvironmentFormProps) {
  const forwardUrl = useSignal(environment.forwardUrl);
  const secondary = useSignal(environment.secondaryForwardUrl);
  const origins = useSignal(environment.allowedOrigins.join("\n"));
  const acting = useAct({ isQuiet: true });
  const { fault } = acting;
  const fields = fault?.fields ?? {};
  const isFixed = (field: string) => environment.declaredFields.includes(field) || !may(Scope.ADMIN);
  const helpOf = (field: string, help: string) =>
    environment.declaredFields.includes(field) ? "The configuration sets this. Change it there." : help;

  const wanted = {
    forward_url: forwardUrl.value.trim(),
    secondary_forward_url: secondary.value.trim(),
    allowed_origins: linesOf(origins.value),
  };
  const changed = [
    ...(wanted.forward_url === environment.forwardUrl ? [] : ["forward_url"]),
    ...(wanted.secondary_forward_url === environment.secondaryForwardUrl ? [] : ["secondary_forward_url"]),
    ...(wanted.allowed_origins.join("\n") === environment.allowedOrigins.join("\n") ? [] : ["allowed_origins"]),
  ];

  async function save() {
    const isSaved = await acting.run(async () => {
      await environments.updateEnvironment({
        environment: {
          name: environment.name,
          forwardUrl: wanted.forward_url,
          secondaryForwardUrl: wanted.secondary_forward_url,
          allowedOrigins: wanted.allowed_origins,
        },
        updateMask: { paths: changed },
        expectedRevision: environment.revision,
      });
      await loadEnvironments();
    }, "Saved the settings.");
    if (isSaved) onSaved();
  }

  return (
    <form
      class="form"
      aria-label="Settings"
      onSubmit={(event) => {
        event.preventDefault();
        if (changed.length > 0) void save();
      }}
    >
      <Field
        label="Forward URL"
        value={forwardUrl.value}
        onInput={(value) => (forwardUrl.value = value)}
        isDisabled={isFixed("forward_url")}
        help={helpOf("forward_url", "Gets webhooks and events, signed. Empty: they are stored, but not delivered.")}
        problem={fields["forward_url"]}
        placeholder="https://app.example.com/hooks"
      />
      <Field
        label="Second forward URL"
        value={secondary.value}
        onInput={(value) => (secondary.value = value)}
        isDisabled={isFixed("secondary_forward_url")}
        help={helpOf("secondary_forward_url", "Gets a copy of each delivery.")}
        problem={fields["secondary_forward_url"]}
      />
      <Field
        label="Allowed origins"
        value={origins.value}
        onInput={(value) => (origins.value = value)}
        rows={3}
        isCode
        isDisabled={isFixed("allowed_origins")}
        help={helpOf(
          "allowed_origins",
          "Origins of pages that may open the connect window, one on each line, such as https://app.example.com.",
        )}
        problem={fields["allowed_origins"]}
      />
      {fault !== undefined && Object.keys(fields).length === 0 && (
        <FaultNotice fault={fault} {...(fault.code === "conflict" && { retry: onSaved })} />
      )}
      <div class="form-actions">
        <Button
          type="submit"
          kind="primary"
          needs={Scope.ADMIN}
          isBusy={acting.isBusy}
          isDisabled={changed.length === 0}
          {...(changed.length === 0 && { title: "Nothing is changed" })}
        >
          Save settings
        </Button>
      </div>
    </form>
  );
}
