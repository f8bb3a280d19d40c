import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { type ScriptTools, ToolFailure } from "../../../core/scripts/script.ts";
import { clientTools } from "./client-tools.ts";
import { type ConnectionToolsOptions, createConnectionTools } from "./connection-tools.ts";
import { lockTools } from "./lock-tools.ts";
import { progressTools } from "./progress-tools.ts";
import { createRecordTools } from "./record-tools.ts";
import type { OpenRunLocks } from "./script-locks.ts";
import type { NamedTools, ToolsRun } from "./tool.ts";
import { createTriggerTools, type TriggerToolsOptions } from "./trigger-tools.ts";

/**
 * Functions that scripts may call, on behalf of one connection. None shows a script a credential, unless the
 * integration allows it.
 */
export interface ScriptToolbox {
  of(run: ToolsRun): ScriptTools & {
    /** Releases the locks that the run holds. */
    end(): Promise<void>;
  };
}

interface ToolboxOptions extends ConnectionToolsOptions, TriggerToolsOptions {
  readonly openLocks: OpenRunLocks;
  readonly world: Pick<World, "log">;
}

export function createScriptToolbox(options: ToolboxOptions): ScriptToolbox {
  const { openLocks, world } = options;
  const tools: NamedTools = {
    ...createConnectionTools(options),
    ...createTriggerTools(options),
    ...createRecordTools(),
    ...lockTools,
    ...progressTools,
    ...clientTools,
  };

  return {
    of(given) {
      const locks = openLocks(given.ref.environment);
      const run = { ...given, locks };
      return {
        end: locks.releaseAll,
        async call(name, args) {
          const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
          if (tool === undefined) throw new ToolFailure("unknown_tool", `nango.${name} does not exist`);
          if (run.signal.aborted) throw new ToolFailure("cancelled", "the run has ended");
          try {
            return await tool(run, args);
          } catch (error) {
            if (!(error instanceof Fault)) throw error;
            world.log.debug("refused a script's call", { tool: name, reason: error.code });
            throw new ToolFailure(error.code, messageOf(error), { cause: error });
          }
        },
        log(line) {
          const { level, message } = line;
          run.log[level]("the script says", { message });
          run.noteLine?.(line);
        },
      };
    },
  };
}

const messageOf = ({ message, mistakes }: Fault): string =>
  mistakes.length === 0
    ? message
    : `${message}: ${mistakes.map((mistake) => `${mistake.path.join(".")} ${mistake.message}`).join("; ")}`;
