import type { Script } from "../../../gen/latchkey/v1/sync_pb.ts";
import { CopyButton } from "../../components/copy.tsx";
import { Section } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";

/** What is wrong with the current file, with file and line. */
export function ScriptMistakes({ script: { problem, version } }: { readonly script: Script }) {
  if (problem === undefined) return null;
  return (
    <Notice tone="bad">
      <p>
        <b>The current file has mistakes{version === "" ? "." : ", so its last valid version runs."}</b>
      </p>
      <ul>
        {problem.violations.map(({ path, message }) => (
          <li key={`${path} ${message}`}>
            <code>{path}</code> {message}
          </li>
        ))}
      </ul>
      <p>A corrected file is used at once.</p>
    </Notice>
  );
}

/** The source of the running version. */
export function ScriptSource({ source, isCut }: { readonly source: string; readonly isCut: boolean }) {
  if (source === "") return null;
  return (
    <Section title="Source" actions={<CopyButton text={source} label="Copy the source" />}>
      <SourceLines source={source} />
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
