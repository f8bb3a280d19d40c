import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { TabFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";
import { queryValue } from "../../state/router.ts";
import { caller, may } from "../../state/session.ts";
import { ConfigurationPart } from "./configuration-part.tsx";
import { EncryptionKeysPart } from "./encryption-keys-part.tsx";
import { ReplicasPart } from "./replicas-part.tsx";
import { StorePart } from "./store-part.tsx";
import { WarningsPart } from "./warnings-part.tsx";

const tabs = [
  ["", "Health"],
  ["configuration", "Configuration"],
] as const;

/** What state Latchkey itself is in, and what it is set up with. */
export function SystemPage() {
  const { version = "", publicUrl = "" } = caller.value ?? {};
  const isAdmin = may(Scope.ADMIN);
  const isConfiguration = queryValue("tab") === "configuration";
  return (
    <PageFrame
      title="System"
      lead={
        <>
          Latchkey {version} at {publicUrl}
        </>
      }
    >
      {isAdmin && <TabFilter name="tab" label="Part of the system" options={tabs} />}
      {isAdmin && isConfiguration ? <ConfigurationPart /> : <HealthPart isAdmin={isAdmin} />}
    </PageFrame>
  );
}

const HealthPart = ({ isAdmin }: { readonly isAdmin: boolean }) => (
  <>
    <WarningsPart />
    {isAdmin ? (
      <>
        <StorePart />
        <EncryptionKeysPart />
        <ReplicasPart />
      </>
    ) : (
      <Notice>The store, encryption keys, replicas and the configuration need a key with the scope admin.</Notice>
    )}
  </>
);
