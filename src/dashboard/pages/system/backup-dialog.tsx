import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { BackupManifest } from "../../../gen/latchkey/v1/store_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/page.tsx";
import { FaultNotice, Notice } from "../../components/states.tsx";
import { bytesText, countText } from "../../data/format.ts";
import { store } from "../../state/clients.ts";
import { type CallFault, faultOf } from "../../state/fault.ts";

interface BackupDialogProps {
  readonly sizeBytes: bigint | undefined;
  readonly onClose: () => void;
}

/** A browser keeps the whole backup in memory until it is complete. */
const mostBytes = 512 * 1_024 * 1_024;

/** Downloads a backup, or shows the command where it is too large for a browser. */
export function BackupDialog({ sizeBytes, onClose }: BackupDialogProps) {
  const bytes = useSignal(0);
  const isRunning = useSignal(false);
  const manifest = useSignal<BackupManifest | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const over = useRef(new AbortController());
  useEffect(() => () => over.current.abort(), []);
  const isTooLarge = sizeBytes !== undefined && sizeBytes > mostBytes;

  async function download() {
    isRunning.value = true;
    fault.value = undefined;
    bytes.value = 0;
    try {
      const { chunks, end } = await readBackup(over.current.signal, (read) => (bytes.value = read));
      save(new Blob(chunks, { type: "application/octet-stream" }), fileName(end));
      manifest.value = end;
    } catch (error) {
      if (!over.current.signal.aborted) fault.value = faultOf(error);
    } finally {
      isRunning.value = false;
    }
  }

  return (
    <Dialog
      title="Back up the store"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          {!isTooLarge && manifest.value === undefined && (
            <Button kind="primary" isBusy={isRunning.value} onClick={() => void download()}>
              {isRunning.value ? `${bytesText(bytes.value)} read` : "Download backup"}
            </Button>
          )}
        </>
      }
    >
      <p>
        A backup is a consistent copy of everything at one moment. Secrets stay encrypted in it: a restore also needs
        the encryption keys, which are not in the backup. Names, tags and webhook bodies are readable.
      </p>
      {isTooLarge && <Notice tone="warn">The store is too large to download with a browser. Use the command.</Notice>}
      {fault.value !== undefined && <FaultNotice fault={fault.value} />}
      {manifest.value !== undefined && <Result manifest={manifest.value} bytes={bytes.value} />}
      <div>
        <p>With the command line, for example every night:</p>
        <Code text="latchkey store backup latchkey-$(date +%F).backup" label="command" />
      </div>
    </Dialog>
  );
}

const Result = ({ manifest, bytes }: { readonly manifest: BackupManifest; readonly bytes: number }) => (
  <>
    <Notice tone="good">The backup is complete. Check it with latchkey store verify.</Notice>
    <Facts
      rows={[
        ["File", fileName(manifest)],
        ["Size", bytesText(bytes)],
        ["Entries", countText(manifest.count)],
        ["Needs encryption keys", manifest.keyIds.join(", ")],
      ]}
    />
  </>
);

async function readBackup(signal: AbortSignal, tell: (bytes: number) => void) {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const { piece } of store.backup({}, { signal })) {
    if (piece.case === "chunk") {
      chunks.push(piece.value as Uint8Array<ArrayBuffer>);
      bytes += piece.value.length;
      tell(bytes);
    } else if (piece.case === "manifest") return { chunks, end: piece.value };
  }
  throw new Error("The backup ended early. Try again.");
}

const fileName = ({ revision, createdAt }: BackupManifest): string => {
  const day = new Date(Number(createdAt?.seconds ?? 0n) * 1_000).toISOString().slice(0, 10);
  return `latchkey-${day}-${revision}.backup`;
};

const keptMs = 60_000;

function save(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), keptMs);
}
