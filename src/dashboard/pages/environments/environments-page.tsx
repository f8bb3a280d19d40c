import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Button } from "../../components/button.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { queryValue } from "../../state/router.ts";
import { BrowserSessions } from "./browser-sessions.tsx";
import { CreateEnvironmentDialog } from "./create-environment-dialog.tsx";
import { EnvironmentList } from "./environment-list.tsx";
import { KeyList } from "./key-list.tsx";

const tabs = [
  ["", "Environments"],
  ["keys", "Keys"],
  ["sessions", "Browser sessions"],
] as const;

interface SettingsPart {
  readonly lead: string;
  readonly verb?: string;
}

const parts: Readonly<Record<string, SettingsPart>> & Readonly<Record<"" | "keys" | "sessions", SettingsPart>> = {
  "": {
    lead: "An environment has its own keys, integrations, connections and forward URL.",
    verb: "Create environment",
  },
  keys: {
    lead: "Keys let your service and your tools call Latchkey. Their secrets are stored only as hashes.",
    verb: "Create key",
  },
  sessions: { lead: "Browsers that are signed in to this dashboard." },
};

/** The environments, and the keys of their callers. */
export function EnvironmentsPage() {
  const isOpen = useSignal(false);
  const tab = queryValue("tab");
  const part = parts[tab] ?? parts[""];
  return (
    <PageFrame
      title="Environments and keys"
      lead={part.lead}
      actions={
        part.verb !== undefined && (
          <Button kind="primary" needs={Scope.ADMIN} onClick={() => (isOpen.value = true)}>
            {part.verb}
          </Button>
        )
      }
    >
      <TabFilter name="tab" label="Part" options={tabs} />
      {part === parts.keys && <KeyList isCreating={isOpen} />}
      {part === parts.sessions && <BrowserSessions />}
      {part === parts[""] && <EnvironmentList />}
      {part === parts[""] && isOpen.value && <CreateEnvironmentDialog onClose={() => (isOpen.value = false)} />}
    </PageFrame>
  );
}
