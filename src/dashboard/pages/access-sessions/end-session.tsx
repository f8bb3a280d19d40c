import type { AccessSession } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { Confirm } from "../../components/confirm.tsx";
import { accessSessions } from "../../state/clients.ts";
import { sessionTitle } from "./session-words.tsx";

interface EndSessionProps {
  readonly session: AccessSession;
  readonly onEnd: () => void;
  readonly onClose: () => void;
}

/** Asks before a session ends: its token cannot be used again. */
export const EndSession = ({ session, onEnd, onClose }: EndSessionProps) => (
  <Confirm
    title={`End ${sessionTitle(session)}?`}
    verb="End session"
    isDanger
    done="Ended the session"
    act={async () => {
      await accessSessions.endAccessSession({ environment: session.environment, id: session.id });
      onEnd();
    }}
    onClose={onClose}
  >
    <p>
      Its token is refused everywhere within a second, and its WebSockets and event streams are cut. It cannot be used
      again: the program that has it needs a new session.
    </p>
  </Confirm>
);
