import { randomBytes } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { type PendingChoice, PendingChoiceSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import { isSame } from "../authorize/callback.ts";
import { isOver } from "../authorize/pending-authorizations.ts";
import { unknownAuthorization } from "../authorize/pending-claims.ts";

/** Pages on which end users choose for their new connections. Each belongs to the browser that authorized. */
export interface PendingChoices {
  /** Returns the token of the page. */
  begin(page: ChoicePage): Promise<string>;
  /** Throws `unknown_authorization` for a token that is over, or of another browser. */
  find(token: string, browser: string | undefined): Promise<PendingChoice>;
  end(token: string): Promise<void>;
}

export type ChoicePage = Omit<MessageInitShape<typeof PendingChoiceSchema>, "tokenHash" | "createdAt" | "$typeName">;

interface PendingChoicesOptions {
  readonly store: Store;
  readonly collections: Pick<AuthorizationCollections, "pendingChoices">;
  readonly world: World;
}

export function createPendingChoices({ store, collections, world }: PendingChoicesOptions): PendingChoices {
  const { pendingChoices } = collections;
  return {
    async begin(page) {
      const token = randomBytes(32).toString("base64url");
      const createdAt = timestampFromMs(world.now());
      const after = create(PendingChoiceSchema, { ...page, tokenHash: digestOf(token), createdAt });
      await store.commit(pendingChoices.change({ before: undefined, after }));
      return token;
    },
    async find(token, browser) {
      const found = await pendingChoices.get(digestOf(token));
      const isTheirs = browser !== undefined && isSame(digestOf(browser), found?.value.browserHash ?? "");
      if (found === undefined || !isTheirs || isOver(found.value, world.now())) throw unknownAuthorization();
      return found.value;
    },
    async end(token) {
      const found = await pendingChoices.get(digestOf(token));
      if (found !== undefined) await store.commit(pendingChoices.change({ before: found, after: undefined }));
    },
  };
}
