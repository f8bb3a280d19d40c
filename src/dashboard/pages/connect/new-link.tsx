import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { CreateConnectSessionResponse } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Notice } from "../../components/states.tsx";
import { relativeTime, safeLink } from "../../data/format.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { useLinkOutcome } from "./link-outcome.ts";

const popup = "popup,width=520,height=760";

/** A link that was just made. It holds a token and is shown only now. */
export function NewLink({ created: { connectLink, session } }: { readonly created: CreateConnectSessionResponse }) {
  const link = safeLink(connectLink);
  const outcome = useLinkOutcome(session);
  const end = session?.expiresAt === undefined ? undefined : timestampMs(session.expiresAt);
  if (outcome.kind === "connected") {
    const { integration, id } = outcome.ref;
    return (
      <Notice tone="good">
        <p>
          Connected: <a href={linkTo(pathOf("connections", integration, id))}>{`${integration}/${id}`}</a>
        </p>
      </Notice>
    );
  }
  if (outcome.kind === "ended")
    return <Notice>This link no longer works: it was used, deleted, or has expired.</Notice>;
  return (
    <div class="new-link">
      <p>
        Send this link to the end user. It works once{end !== undefined && `, and expires ${relativeTime(end)}`}. It
        cannot be shown again.
      </p>
      <CopyField text={connectLink} label="link" />
      {link !== undefined && (
        <p class="form-actions">
          <Button isSmall onClick={() => window.open(link, "_blank", `noopener,${popup}`)}>
            Open in a window
          </Button>
          <span aria-live="polite">
            {outcome.isOpened ? <Badge tone="info">Opened</Badge> : <Badge tone="quiet">Waits for the end user</Badge>}
          </span>
        </p>
      )}
    </div>
  );
}
