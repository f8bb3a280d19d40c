import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { CheckProviderResponse } from "../../../gen/latchkey/v1/provider_pb.ts";
import { providers } from "../../state/clients.ts";
import { type CallFault, faultOf, isAborted } from "../../state/fault.ts";

/** The result of the last check of a text. */
export interface CheckedText {
  readonly result: CheckProviderResponse | undefined;
  readonly fault: CallFault | undefined;
  /** True while the shown result is of an earlier text. */
  readonly isBehind: boolean;
}

const settleMs = 350;

/** Checks a text by the server's rules whenever it has stopped changing. */
export function useProviderCheck(text: string, replaces: string, isOn = true): CheckedText {
  const result = useSignal<CheckProviderResponse | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const checked = useSignal<string | undefined>(undefined);
  useEffect(() => {
    if (!isOn) return;
    const over = new AbortController();
    const timer = setTimeout(async () => {
      try {
        result.value = await providers.checkProvider({ text, replaces }, { signal: over.signal });
        fault.value = undefined;
        checked.value = text;
      } catch (error) {
        if (!isAborted(error)) fault.value = faultOf(error);
      }
    }, settleMs);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [text, replaces, isOn]);
  return { result: result.value, fault: fault.value, isBehind: checked.value !== text };
}
