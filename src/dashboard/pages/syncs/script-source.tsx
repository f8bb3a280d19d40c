import type { Script } from "../../../gen/latchkey/v1/sync_pb.ts";
import { CopyButton } from "../../components/copy.tsx";
import { Section } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";

interface ScriptSourceProps {
  readonly script: Script;
  readonly source: string;
  readonly isCut: boolean;
}

interface SourceMistake {
  /** Such as `calendar/syncs/events.ts:12:5`. */
  readonly place: string;
  readonly line: number;
  readonly message: string;
}

/** The source of the running version, and the mistakes of the file with their lines. */
export function ScriptSource({ script, source, isCut }: ScriptSourceProps) {
  const mistakes: readonly SourceMistake[] = (script.problem?.violations ?? []).map(({ path, message }) => ({
    place: path,
    line: Number(/:(\d+)(?::\d+)?$/.exec(path)?.[1] ?? 0),
    message,
  }));
  return (
    <Section title="Source" actions={source === "" ? undefined : <CopyButton text={source} label="Copy the source" />}>
      {mistakes.length > 0 && (
        <Notice tone="bad">
          <p>
            <b>The current file has mistakes{source === "" ? "." : ", so the version below still runs."}</b>
          </p>
          <ul>
            {mistakes.map(({ place, message }) => (
              <li key={`${place} ${message}`}>
                <code>{place}</code> {message}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {source !== "" && <SourceLines source={source} />}
      {isCut && <p class="quiet">The source is longer. This is its beginning.</p>}
    </Section>
  );
}

const SourceLines = ({ source }: { readonly source: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard.
  <section class="source" aria-label="Source" tabIndex={0}>
    <ol>
      {source
        .trimEnd()
        .split("\n")
        .map((text, i) => (
          <li key={i}>
            <span aria-hidden="true">{i + 1}</span>
            <code>{text}</code>
          </li>
        ))}
    </ol>
  </section>
);
