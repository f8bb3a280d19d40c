import { useSignal } from "@preact/signals";
import { type CallFault, faultOf } from "../state/fault.ts";
import { say, sayFault } from "../state/messages.ts";

export interface PageAction {
  readonly isBusy: boolean;
  /** Why the last try failed. */
  readonly fault: CallFault | undefined;
  /** Runs unless it runs already. Returns whether it succeeded. */
  run(work: () => Promise<unknown>, done?: string): Promise<boolean>;
  forget(): void;
}

/** Something that a person does: one at a time, with its failure kept for the form, or shown as a message. */
export function useAct({ isQuiet = false }: { readonly isQuiet?: boolean } = {}): PageAction {
  const isBusy = useSignal(false);
  const fault = useSignal<CallFault | undefined>(undefined);
  return {
    isBusy: isBusy.value,
    fault: fault.value,
    async run(work, done) {
      if (isBusy.peek()) return false;
      isBusy.value = true;
      fault.value = undefined;
      try {
        await work();
        if (done !== undefined) say(done);
        return true;
      } catch (error) {
        fault.value = faultOf(error);
        if (!isQuiet) sayFault(error);
        return false;
      } finally {
        isBusy.value = false;
      }
    },
    forget() {
      fault.value = undefined;
    },
  };
}
