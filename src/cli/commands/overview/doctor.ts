import { commandWord } from "../../process/command-word.ts";
import type { CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import type { Tone } from "../../terminal/paint.ts";
import { wrapHelp } from "../../terminal/wrap-help.ts";
import { checkControl, checkEnvironments, checkStore, checkSystem } from "./control-checks.ts";
import type { Finding } from "./finding.ts";
import { checkData, checkEnvironmentKey, checkPublicUrl } from "./network-checks.ts";

const tones: Readonly<Record<Finding["status"], Tone>> = { ok: "good", warn: "warning", fail: "bad" };

/** `latchkey doctor`: prints each finding as soon as it is known. */
export async function doctor(session: CommandSession, data: string | undefined): Promise<number> {
  const { output, terminal } = session;
  const command = `${commandWord(terminal.env)} `;
  let isGood = true;
  const print = async (findings: readonly Finding[]) => {
    for (const { check, status, message, remedy } of findings) {
      if (status === "fail") isGood = false;
      if (output.json) await output.document({ check, status, message, ...(remedy !== undefined && { remedy }) });
      else {
        await output.line(
          `${output.paint(tones[status], status.padEnd(6))}${check.padEnd(18)}${escapeControl(message)}`,
        );
        if (remedy === undefined) continue;
        const text = `      → ${escapeControl(remedy.replaceAll("latchkey ", command))}`;
        await output.line(terminal.isTerminal ? wrapHelp(text, terminal.columns ?? 80) : text);
      }
    }
  };
  await print(await checkData(session, data));
  const { findings, server } = await checkControl(session);
  await print(findings);
  await print(await checkEnvironmentKey(session, data));
  if (server !== undefined) {
    await print(await checkPublicUrl(server.publicUrl));
    await print(await checkStore(session));
    await print(await checkEnvironments(session));
    await print(await checkSystem(session));
  }
  return isGood ? exitCodes.ok : exitCodes.failed;
}
