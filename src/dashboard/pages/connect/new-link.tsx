import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { CreateConnectSessionResponse } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { relativeTime, safeLink } from "../../data/format.ts";

const popup = "popup,width=520,height=760";

/** A link that was just made. It holds a token and is shown only now. */
export function NewLink({ created: { connectLink, session } }: { readonly created: CreateConnectSessionResponse }) {
  const link = safeLink(connectLink);
  const end = session?.expiresAt === undefined ? undefined : timestampMs(session.expiresAt);
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
        </p>
      )}
    </div>
  );
}
