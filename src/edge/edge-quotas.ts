import { create } from "@bufbuild/protobuf";
import type { World } from "../base/world.ts";
import { holdMsOf } from "../broker/quotas/learned-hold.ts";
import type { Quotas } from "../broker/quotas/quotas.ts";
import { type EdgeFault, LimitNoticeSchema } from "../gen/latchkey/v1/edge_pb.ts";
import { faultOf } from "./broker-fault.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { Questions } from "./questions.ts";

interface EdgeQuotasOptions {
  readonly questions: Pick<Questions<EdgeFault | undefined>, "ask">;
  readonly link: () => Pick<BrokerLink, "send" | "awaySinceMs">;
  readonly world: World;
}

/** `LimitNotice.fields` takes no more. */
const maxFields = 32;

/** Has the brokers keep providers' limits, since all edges share them. */
export function createEdgeQuotas({ questions, link, world }: EdgeQuotasOptions): Omit<Quotas, "close"> {
  return {
    enter(live, { path, priority, patienceMs }) {
      const { ref } = live.connection;
      // Without brokers, requests are not counted; the provider itself refuses what is too much.
      if (ref === undefined || live.provider.quota === undefined || link().awaySinceMs() !== undefined)
        return undefined;
      const isBackground = priority === "background";
      return questions.ask({ kind: "pass", ref, path: bare(path), isBackground, patienceMs }).then(
        (fault) => {
          if (fault !== undefined) throw faultOf(fault);
        },
        () => {
          // The brokers went away during the question.
        },
      );
    },
    noteResponse(live, path, answer) {
      const { ref } = live.connection;
      const { quota } = live.provider;
      if (ref === undefined || quota === undefined || holdMsOf(answer, quota, world.now()) === undefined) return;
      const { limitHeader, remainingHeader, resetHeader } = quota;
      const read = ["retry-after", limitHeader, remainingHeader, resetHeader].map((name) => name.toLowerCase());
      const fields = answer.fields.flatMap((name, i) =>
        i % 2 === 0 && read.includes(name.toLowerCase()) ? [name, answer.fields[i + 1] ?? ""] : [],
      );
      const value = create(LimitNoticeSchema, {
        ref,
        path: bare(path),
        status: answer.status,
        fields: fields.slice(0, maxFields),
      });
      link().send({ case: "limitNotice", value });
    },
  };
}

const bare = (path: string): string => (path.split("?", 1)[0] ?? "").slice(0, 8_192);
