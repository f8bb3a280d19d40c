import { useSignal } from "@preact/signals";
import type { GetStoreStatusResponse } from "../../../gen/latchkey/v1/store_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Facts, Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { bytesText, counted, countText } from "../../data/format.ts";
import { type Loaded, useLoad } from "../../data/load.ts";
import { store } from "../../state/clients.ts";
import { BackupDialog } from "./backup-dialog.tsx";
import { useScrub } from "./scrub.ts";

/** The store: its state, its last backup and its last check. */
export function StorePart() {
  const status = useLoad((signal) => store.getStoreStatus({}, { signal }), []);
  const { value, fault, reload } = status;
  return (
    <Section title="Store">
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={5} />}
      {value !== undefined && (
        <div class="half-columns">
          <StateCard status={value} />
          <BackupCard status={value} reload={reload} />
          <CheckCard status={value} loaded={status} />
        </div>
      )}
    </Section>
  );
}

const kinds: Readonly<Record<string, string>> = { level: "LevelDB, in a folder", postgres: "PostgreSQL" };

const StateCard = ({ status }: { readonly status: GetStoreStatusResponse }) => (
  <div class="card">
    <div class="card-head">
      <h3>State</h3>
      <Badge tone={status.writable ? (status.reason === "" ? "good" : "warn") : "bad"}>
        {status.writable ? "Accepts writes" : "Accepts no writes"}
      </Badge>
    </div>
    {status.reason !== "" && <Notice tone={status.writable ? "warn" : "bad"}>{status.reason}</Notice>}
    <Facts
      rows={[
        ["Kind", kinds[status.backend] ?? status.backend],
        ["Size", status.sizeBytes !== undefined && bytesText(status.sizeBytes)],
        ["Free on the disk", status.freeBytes !== undefined && bytesText(status.freeBytes)],
        ["Revision", countText(status.revision)],
        ["Store ID", <CopyField key="id" text={status.storeId} label="store ID" />],
      ]}
    />
  </div>
);

function BackupCard({ status, reload }: { readonly status: GetStoreStatusResponse; readonly reload: () => void }) {
  const isOpen = useSignal(false);
  const { lastBackup: last } = status;
  return (
    <div class="card">
      <div class="card-head">
        <h3>Backup</h3>
        <Button isSmall onClick={() => (isOpen.value = true)}>
          Back up
        </Button>
      </div>
      {last === undefined ? (
        <p class="quiet">Latchkey knows of no backup. Copies that other tools made of the volume are not known here.</p>
      ) : (
        <Facts
          rows={[
            ["Last backup", <Time key="at" at={last.at} />],
            ["Made by", last.actor],
            ["Size", bytesText(last.bytes)],
            ["Revision", `${countText(last.revision)}, ${counted(status.revision - last.revision, "commit")} ago`],
          ]}
        />
      )}
      {isOpen.value && (
        <BackupDialog
          sizeBytes={status.sizeBytes}
          onClose={() => {
            isOpen.value = false;
            reload();
          }}
        />
      )}
    </div>
  );
}

interface CheckCardProps {
  readonly status: GetStoreStatusResponse;
  readonly loaded: Loaded<GetStoreStatusResponse>;
}

function CheckCard({ status: { lastScrub: last }, loaded }: CheckCardProps) {
  const scrub = useScrub(loaded.reload);
  const { progress } = scrub;
  return (
    <div class="card">
      <div class="card-head">
        <h3>Check for damage</h3>
        {scrub.isRunning ? (
          <Button isSmall onClick={scrub.stop}>
            Stop
          </Button>
        ) : (
          <Button isSmall onClick={scrub.start}>
            Check now
          </Button>
        )}
      </div>
      {scrub.isRunning && (
        <p role="status">
          {progress === undefined ? "Starting" : `${counted(progress.checked, "value")} read`}. Keep this page open
          until it ends.
        </p>
      )}
      {scrub.fault !== undefined && <FaultNotice fault={scrub.fault} />}
      {last === undefined ? (
        !scrub.isRunning && <p class="quiet">The store was never checked. A check reads everything once, slowly.</p>
      ) : (
        <Facts
          rows={[
            ["Last check", <Time key="at" at={last.at} />],
            ["Asked for by", last.actor],
            ["Read", counted(last.checked, "value")],
            [
              "Result",
              <Badge key="result" tone={last.damaged === 0n ? "good" : "bad"}>
                {last.damaged === 0n ? "No damage" : `${countText(last.damaged)} damaged`}
              </Badge>,
            ],
          ]}
        />
      )}
      {last !== undefined && last.damaged > 0n && (
        <Notice tone="bad">
          Damaged: {last.examples.slice(0, 5).join(", ")}. Check the disk, and restore the last backup.
        </Notice>
      )}
    </div>
  );
}
