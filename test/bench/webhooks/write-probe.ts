/** Loaded into the sidecar's process before it: the probe of turns, and each durable write of LevelDB. */
import { noteWrite } from "../tails/turn-probe.ts";

/** What LevelDB's native module exports, among others. */
interface NativeLevel {
  batch_write?: (context: unknown, options: unknown) => Promise<void>;
}

/** The program contains LevelDB's JavaScript, so the native module is the only place that both share. */
const load = process.dlopen;
process.dlopen = function loadTimed(module: object, ...rest) {
  load.call(process, module, ...rest);
  const { exports: native } = module as { readonly exports: NativeLevel };
  const write = native.batch_write;
  if (write === undefined) return;
  native.batch_write = async (context, options) => {
    const from = performance.now();
    await write(context, options);
    noteWrite({ from, until: performance.now() });
  };
};
