import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../base/ids.ts";
import { KeyDigestSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Key } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { KnownKeys } from "./authentication.ts";
import { keyDigestKey, keyTouchKey, type SetupCollections } from "./setup-collections.ts";

/** The changes that create and delete a key: the record, the hash of its secret, its last use. */
export interface KeyChanges {
  addition(key: Key, secret: string): Change[];
  deletion(before: StoredRecordOf<Key>): Change[];
}

interface KeyChangesOptions {
  readonly collections: SetupCollections;
  readonly keys: Pick<KnownKeys, "digestsOf">;
}

export const createKeyChanges = ({ collections, keys }: KeyChangesOptions): KeyChanges => ({
  addition: (key, secret) => [
    ...collections.keys.change({ before: undefined, after: key }),
    {
      key: keyDigestKey(digestOf(secret)),
      value: toBinary(KeyDigestSchema, create(KeyDigestSchema, { keyId: key.id })),
      expect: 0,
    },
  ],
  deletion(before) {
    const { id } = before.value;
    const gone = keys.digestsOf(id).map(keyDigestKey);
    return [
      ...collections.keys.change({ before, after: undefined }),
      ...[...gone, keyTouchKey(id)].map((key) => ({ key, value: undefined })),
    ];
  },
});

export const expiryAt = (ms: number | undefined) => (ms === undefined ? {} : { expiresAt: timestampFromMs(ms) });
