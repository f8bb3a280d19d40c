import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ResealResponse, SealKey } from "../../../gen/latchkey/v1/store_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { Progress } from "../../components/progress.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { countText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { store } from "../../state/clients.ts";
import { type CallFault, faultOf } from "../../state/fault.ts";
import { say } from "../../state/messages.ts";

const columns = (first: SealKey | undefined): readonly TableColumn<SealKey>[] => [
  { name: "Key", show: ({ id }) => <code>{id}</code> },
  {
    name: "State",
    show: (key) => {
      const [tone, word] = stateOf(key, first);
      return <Badge tone={tone}>{word}</Badge>;
    },
  },
  { name: "Data keys", show: ({ dataKeys }) => countText(dataKeys), isNumber: true, isMinor: true },
];

function stateOf(key: SealKey, first: SealKey | undefined) {
  if (key === first) return ["good", "Encrypts new values"] as const;
  if (!key.configured) return ["bad", "Needed, but not configured"] as const;
  return key.needed ? (["warn", "Still needed"] as const) : (["info", "Can be removed"] as const);
}

/** The keys that encrypt the store, and re-encryption with the first one. */
export function EncryptionKeysPart() {
  const { value, fault, reload } = useLoad((signal) => store.listSealKeys({}, { signal }), []);
  const reseal = useReseal(reload);
  const keys = value?.keys ?? [];
  const isOldNeeded = keys.slice(1).some(({ needed }) => needed);
  return (
    <Section
      title="Encryption keys"
      actions={
        isOldNeeded && (
          <Button isSmall isBusy={reseal.isRunning} onClick={reseal.start}>
            Encrypt again with the first key
          </Button>
        )
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={2} />}
      {reseal.progress !== undefined && reseal.isRunning && (
        <Progress
          done={Number(reseal.progress.done)}
          all={Number(reseal.progress.total)}
          label="Values encrypted again"
        />
      )}
      {reseal.fault !== undefined && <FaultNotice fault={reseal.fault} retry={reseal.start} />}
      {value !== undefined && (
        <Table label="Encryption keys" columns={columns(keys[0])} rows={keys} keyOf={({ id }) => id} />
      )}
      {keys.slice(1).some(({ needed, configured }) => configured && !needed) && (
        <Notice>
          A key that can be removed goes out of LATCHKEY_SEAL_KEYS at the next restart. Keep a copy as long as you keep
          older backups.
        </Notice>
      )}
    </Section>
  );
}

function useReseal(onEnd: () => void) {
  const isRunning = useSignal(false);
  const progress = useSignal<ResealResponse | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const over = useRef(new AbortController());
  useEffect(() => () => over.current.abort(), []);

  async function run() {
    const { signal } = over.current;
    try {
      for await (const step of store.reseal({}, { signal })) progress.value = step;
      say("Everything is encrypted with the first key.");
    } catch (error) {
      if (!signal.aborted) fault.value = faultOf(error);
    } finally {
      isRunning.value = false;
      if (!signal.aborted) onEnd();
    }
  }

  return {
    isRunning: isRunning.value,
    progress: progress.value,
    fault: fault.value,
    start() {
      if (isRunning.peek()) return;
      isRunning.value = true;
      fault.value = undefined;
      void run();
    },
  };
}
