import {
  Warning_Severity as Severity,
  Warning_Subject as Subject,
  type Warning,
} from "../../../gen/latchkey/v1/system_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { useLoad } from "../../data/load.ts";
import { system } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";

/** What needs attention, with what to do and where. */
export function WarningsPart() {
  const { value, fault, reload } = useLoad((signal) => system.listWarnings({}, { signal }), []);
  return (
    <Section title="Needs attention">
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={3} />}
      {value?.warnings.length === 0 && (
        <Notice tone="good">
          Nothing: integrations, deliveries, channels, keys, backups and configuration are fine.
        </Notice>
      )}
      {value !== undefined && value.warnings.length > 0 && (
        <ul class="table-box warning-list" aria-label="Warnings">
          {value.warnings.map((warning, i) => (
            <WarningRow key={i} warning={warning} />
          ))}
        </ul>
      )}
      {value?.truncated && <Notice>There are more. Solve some of these to see the others.</Notice>}
    </Section>
  );
}

function WarningRow({ warning }: { readonly warning: Warning }) {
  const { severity, message, remedy, environment, name, code, doc } = warning;
  const [tone, word] = severityShown[severity] ?? severityShown[Severity.UNSPECIFIED];
  const place = placeOf(warning);
  return (
    <li>
      <span>
        <Badge tone={tone} title={code}>
          {word}
        </Badge>
      </span>
      <div>
        <p>{sentence(message, name)}</p>
        <p class="quiet">
          {remedy !== "" && `${sentence(remedy)} `}
          {doc !== "" && `See docs/${doc.split("#")[0]}.`}
        </p>
      </div>
      {place === undefined ? (
        <span class="quiet">{environment}</span>
      ) : (
        <a href={place[1]}>
          {place[0]}
          {environment !== "" && ` in ${environment}`}
        </a>
      )}
    </li>
  );
}

const severityShown: Readonly<Record<Severity, readonly [tone: BadgeTone, word: string]>> = {
  [Severity.UNSPECIFIED]: ["quiet", "Unknown"],
  [Severity.CRITICAL]: ["bad", "Critical"],
  [Severity.WARNING]: ["warn", "Warning"],
  [Severity.NOTICE]: ["quiet", "Notice"],
};

/** Where it can be mended. */
function placeOf({ subject, name, environment }: Warning): readonly [text: string, link: string] | undefined {
  const env = environment === "" ? {} : { env: environment };
  switch (subject) {
    case Subject.INTEGRATION:
      return ["Integration", linkTo(pathOf("integrations", name), env)];
    case Subject.DESTINATION:
      return ["Destinations", linkTo("/destinations", env)];
    case Subject.CHANNEL:
      return ["Channels", linkTo("/channels", env)];
    case Subject.KEY:
      return ["Keys", linkTo("/environments", { ...env, tab: "keys" })];
    case Subject.ENVIRONMENT:
      return ["Settings", linkTo(pathOf("environments", name), env)];
    case Subject.CONFIG:
      return ["Configuration", linkTo("/system", { tab: "configuration" })];
    case Subject.STORE:
    case Subject.REPLICA:
    case Subject.UNSPECIFIED:
      return undefined;
    default:
      // A newer Latchkey knows more.
      return undefined;
  }
}

/** Names stay as they are. */
const sentence = (text: string, name = "") => {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return name !== "" && text.startsWith(name) ? ended : ended.charAt(0).toUpperCase() + ended.slice(1);
};
