import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireKeyItself } from "../../broker/setup/caller.ts";
import { SignInService } from "../../gen/latchkey/v1/sign_in_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { bearerOf } from "../server/gate.ts";

export { SignInService };

export const signInService = ({
  browserSessions,
  signInLinks,
  dashboardOrigin,
}: Broker): ServiceImpl<typeof SignInService> => ({
  async createSignInLink(_request, context) {
    const caller = callerOf(context);
    requireKeyItself(caller, "a further sign-in link is not given");
    const origin = dashboardOrigin();
    if (origin === undefined) throw new Fault("not_implemented", "the dashboard is off; set LATCHKEY_UI to on");
    const holder = { keyId: caller.keyId, keyDigest: digestOf(bearerOf(context.requestHeader)) };
    const { token, expiresAtMs } = await signInLinks.create(holder);
    return { path: `/ui/sign-in#link=${token}`, origin, expiresAt: timestampFromMs(expiresAtMs) };
  },
  async listBrowserSessions(request, context) {
    const { items, next } = await browserSessions.list(callerOf(context), pageOf(request));
    return { sessions: [...items], nextPageToken: next };
  },
  async revokeBrowserSession({ id }, context) {
    await browserSessions.revoke({ id }, callerOf(context));
    return {};
  },
});
