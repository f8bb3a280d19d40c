import type { IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Checkbox, Field, Select } from "../../components/field.tsx";
import type { CallFault } from "../../state/fault.ts";
import { linkTo } from "../../state/router.ts";
import type { SetupValues } from "./setup-values.ts";

/** Names of the settings that every integration has, for people. */
export const furtherTitles: SetupValues = {
  display_name: "Name for people",
  callback: "Form of the redirect URI",
  no_forward: "Webhooks only for syncs",
  "channels.automatic": "Watch channels for all connections",
  "channels.catch_up_syncs": "Syncs after lost notifications",
  use_record: "Log of uses",
  reflection: "Echoed credentials",
  hosts: "Further origins",
  keep_set_cookie: "Cookies of the provider",
  credentials_in_scripts: "Credentials in scripts",
  keep_grants: "Grants of deleted connections",
};

export interface FurtherSettingsProps {
  readonly setup: IntegrationSetup;
  readonly values: SetupValues;
  readonly onChange: (path: string, value: string) => void;
  readonly isDisabled: boolean;
  readonly fault: CallFault | undefined;
}

/** Settings of webhooks and of requests, which every integration has. */
export function FurtherSettings({ setup, values, onChange, isDisabled, fault }: FurtherSettingsProps) {
  const bind = (path: string) => ({
    label: furtherTitles[path] ?? path,
    value: values[path] ?? "",
    onInput: (value: string) => onChange(path, value),
    problem: fault?.fields[`integration.${path}`],
    isDisabled,
  });
  const check = (path: string) => ({
    isChecked: values[path] === "yes",
    onChange: (isOn: boolean) => onChange(path, isOn ? "yes" : ""),
    isDisabled,
  });
  return (
    <>
      <fieldset class="card form">
        <legend>Webhooks and channels</legend>
        <Checkbox
          isChecked={values["no_forward"] !== "yes"}
          onChange={(isOn) => onChange("no_forward", isOn ? "" : "yes")}
          isDisabled={isDisabled}
          label={
            <>
              Deliver webhooks to your application. Syncs receive them in any case. The{" "}
              <a href={linkTo("/destinations")}>destinations</a> are those of the environment.
            </>
          }
        />
        <Checkbox
          {...check("channels.automatic")}
          label="Create a watch channel for each new connection, renew it, and stop it on deletion."
        />
        <Field
          {...bind("channels.catch_up_syncs")}
          rows={2}
          isCode
          help="Names of syncs, one a line. They run for a connection whose channel lost notifications."
        />
      </fieldset>
      <fieldset class="card form">
        <legend>Requests</legend>
        {setup.callbackUrl !== "" && (
          <Select
            {...bind("callback")}
            help="A URI of its own tells the answers of providers apart. Register the new one at the provider before you change this."
            options={[
              ["CALLBACK_SHARED", "Shared with other integrations"],
              ["CALLBACK_BOUND", "Its own"],
            ]}
          />
        )}
        <Field
          {...bind("hosts")}
          rows={2}
          isCode
          placeholder="https://files.example.com"
          help="Further origins that credentials may be sent to, one a line, for callers that name one."
        />
        <Select
          {...bind("use_record")}
          help="Whether each use of a connection is logged. Queries, headers and bodies never are."
          options={[
            ["USE_RECORD_OFF", "Off"],
            ["USE_RECORD_HOST", "With the host"],
            ["USE_RECORD_PATH", "With the path, which may hold personal data"],
          ]}
        />
        <Select
          {...bind("reflection")}
          help="What happens if the provider's answer repeats the credential."
          options={[
            ["REFLECTION_OFF", "Off"],
            ["REFLECTION_MASK", "Mask it"],
            ["REFLECTION_REFUSE", "Refuse the answer"],
          ]}
        />
        <Checkbox {...check("keep_set_cookie")} label="Pass the provider's Set-Cookie headers on." />
        <Checkbox {...check("credentials_in_scripts")} label="Let scripts read the credentials of their connections." />
        <Checkbox
          {...check("keep_grants")}
          label="Do not revoke grants at the provider when connections are deleted."
        />
      </fieldset>
    </>
  );
}
