import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { CreateConnectSessionResponse } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { Button } from "../../components/button.tsx";
import { Checkbox, Field } from "../../components/field.tsx";
import { PageFrame, Section } from "../../components/page.tsx";
import { Empty, FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { connectSessions } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue } from "../../state/router.ts";
import { tagOf } from "../connections/connection-filters.tsx";
import { NewLink } from "./new-link.tsx";
import { OpenLinks } from "./open-links.tsx";

/** Invites an end user to connect an account, and lists who was invited. */
export function ConnectPage() {
  const made = useSignal<CreateConnectSessionResponse | undefined>(undefined);
  const round = useSignal(0);
  return (
    <PageFrame
      title="Connect"
      lead="Make a link by which an end user connects an account, or connect one yourself."
      actions={
        <a class="button plain" href={linkTo("/branding")}>
          Branding of the page
        </a>
      }
    >
      <div class="connect-columns">
        <Section title="New link">
          <NewLinkForm
            onMade={(created) => {
              made.value = created;
              round.value += 1;
            }}
          />
        </Section>
        <Section title="Your link">
          {made.value === undefined ? (
            <p class="quiet">The link appears here. It opens a page where the end user chooses and authorizes.</p>
          ) : (
            <NewLink key={made.value.session?.id} created={made.value} />
          )}
        </Section>
      </div>
      <OpenLinks round={round.value} />
    </PageFrame>
  );
}

function NewLinkForm({ onMade }: { readonly onMade: (created: CreateConnectSessionResponse) => void }) {
  const integrations = useIntegrationNames();
  const wished = queryValue("integration");
  const allowed = useSignal<ReadonlySet<string>>(new Set(wished === "" ? [] : [wished]));
  const user = useSignal({ id: "", email: "", displayName: "" });
  const tagText = useSignal("");
  const act = useAct({ isQuiet: true });
  const tagLines = tagText.value.split("\n").filter((line) => line.trim() !== "");
  const wrong = tagLines.find((line) => tagOf(line.trim()).length === 0);
  const isReady = wrong === undefined && (user.value.id.trim() !== "" || tagLines.length > 0);

  async function make() {
    const { id, email, displayName } = user.value;
    const endUser = { id: id.trim(), email: email.trim(), displayName: displayName.trim() };
    const created = await connectSessions.createConnectSession({
      environment: environmentName.value,
      allowedIntegrations: [...allowed.value],
      tags: Object.fromEntries(tagLines.flatMap((line) => tagOf(line.trim()))),
      ...(endUser.id !== "" && { endUser }),
    });
    onMade(created);
  }
  if (integrations.length === 0) {
    return (
      <Empty title="No integrations yet">
        <p>End users connect accounts of an integration.</p>
        <a href={linkTo("/integrations")}>Add an integration</a>
      </Empty>
    );
  }
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) void act.run(make, "Made a link");
      }}
    >
      <IntegrationChoice
        integrations={integrations}
        allowed={allowed.value}
        onChange={(next) => (allowed.value = next)}
      />
      <Field
        label="End user ID"
        value={user.value.id}
        onInput={(id) => (user.value = { ...user.value, id })}
        help="As in your application. This, or a tag, is required."
        problem={act.fault?.fields["end_user.id"]}
      />
      <Field
        label="Email"
        type="email"
        value={user.value.email}
        onInput={(email) => (user.value = { ...user.value, email })}
        problem={act.fault?.fields["end_user.email"]}
      />
      <Field
        label="Name"
        value={user.value.displayName}
        onInput={(displayName) => (user.value = { ...user.value, displayName })}
      />
      <Field
        label="Tags"
        value={tagText.value}
        onInput={(value) => (tagText.value = value)}
        rows={2}
        isCode
        placeholder="team=sales"
        help="One tag a line, as key=value. The new connection gets them."
        problem={wrong === undefined ? act.fault?.fields["tags"] : `"${wrong}" is not key=value.`}
      />
      {act.fault !== undefined && <FaultNotice fault={act.fault} />}
      <div class="form-actions">
        <Button
          type="submit"
          kind="primary"
          needs={Scope.CONNECTIONS_WRITE}
          isBusy={act.isBusy}
          isDisabled={!isReady}
          title={isReady ? "" : "Enter the ID of the end user, or a tag"}
        >
          Make a link
        </Button>
      </div>
    </form>
  );
}

interface IntegrationChoiceProps {
  readonly integrations: readonly string[];
  /** Empty: all. */
  readonly allowed: ReadonlySet<string>;
  readonly onChange: (allowed: ReadonlySet<string>) => void;
}

const IntegrationChoice = ({ integrations, allowed, onChange }: IntegrationChoiceProps) => (
  <fieldset class="integration-choice">
    <legend>Integrations</legend>
    <div class="integration-choices">
      {integrations.map((key) => (
        <Checkbox
          key={key}
          label={key}
          isChecked={allowed.has(key)}
          onChange={(isOn) => onChange(new Set(isOn ? [...allowed, key] : [...allowed].filter((one) => one !== key)))}
        />
      ))}
    </div>
    <p class="field-help">
      {allowed.size === 0 ? "The end user chooses among all." : "The end user chooses among these."}
    </p>
  </fieldset>
);
