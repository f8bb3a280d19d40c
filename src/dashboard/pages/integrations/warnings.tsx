import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Section } from "../../components/page.tsx";
import { linkTo, pathOf } from "../../state/router.ts";
import { warningText } from "./warning-texts.ts";

/** What the provider's data, the scopes or missing settings predict, with the way to mend it. */
export function Warnings({ integration: { key, warnings } }: { readonly integration: Integration }) {
  if (warnings.length === 0) return null;
  return (
    <Section title="What to mend">
      <ul class="warnings">
        {warnings.map((one) => {
          const { title, tone, field } = warningText(one);
          return (
            <li key={one.code} class={`notice ${tone}`}>
              <strong>{title}</strong>
              <p>{sentence(one.message)}</p>
              {field !== undefined && (
                <p class="notice-foot">
                  <a href={linkTo(pathOf("integrations", key), { tab: "settings", field })}>Open the settings</a>
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
