import { Fault } from "../../base/fault.ts";
import { StaleWrite, StoreUnavailable } from "../../store/contract.ts";
import { SealKeyMissing } from "../../store/sealed/seal-key.ts";

/** Converts any thrown value to a Fault; errors of the store by their meaning. */
export function faultOfStore(thrown: unknown): Fault {
  // A replica that does not have the new seal key yet can do nothing that needs the key.
  if (thrown instanceof SealKeyMissing) {
    return new Fault("store_unavailable", thrown.message, { cause: thrown, retryAfterSeconds: 1 });
  }
  if (thrown instanceof StoreUnavailable) {
    return new Fault("store_unavailable", "the store does not accept writes now; retry", {
      cause: thrown,
      retryAfterSeconds: 1,
    });
  }
  if (thrown instanceof StaleWrite) {
    return new Fault("conflict", "another request changed the object at the same time; read it again", {
      cause: thrown,
    });
  }
  return Fault.from(thrown);
}
