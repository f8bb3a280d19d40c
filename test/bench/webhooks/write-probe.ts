/** Loaded into the sidecar's process before it: the probe of turns, and each durable write of LevelDB. */
import { Level } from "level";
import { noteWrite } from "../tails/turn-probe.ts";

interface NativeBatch {
  _write(options: unknown): Promise<void>;
}

/** The methods of LevelDB's own class behind `Level`. */
const database = Level.prototype as unknown as { _chainedBatch(): NativeBatch };
const create = database._chainedBatch;

database._chainedBatch = function createTimed() {
  const batch = create.call(this);
  const write = batch._write;
  batch._write = async (options) => {
    const from = performance.now();
    await write.call(batch, options);
    noteWrite({ from, until: performance.now() });
  };
  return batch;
};
