import { createDigestPostings, digestBytes } from "./digest-postings.ts";
import { createIndexedOwners, type Owner } from "./indexed-owners.ts";

/**
 * Index from digests to connections, for a million connections or more. Uses typed arrays and no objects: a Map of
 * strings would take three times the memory. Changes apply at once, one owner at a time.
 */
export interface ResourceIndex {
  /** Indexes the owner by exactly these digests, which are sorted and concatenated. */
  put(owner: Owner, digests: Uint8Array): void;
  remove(owner: Owner): void;
  /** Returns the owners indexed by the digest, in no order. The digest has one character a byte. */
  match(digest: string): readonly Owner[];
  /** The number of digests, counted once for each owner. */
  readonly entries: number;
  readonly owners: number;
  readonly bytes: number;
}

export function createResourceIndex(): ResourceIndex {
  const postings = createDigestPostings();
  const owners = createIndexedOwners();

  function put(owner: Owner, digests: Uint8Array): void {
    const hashed = owners.hashOf(owner);
    let number = owners.find(owner, hashed);
    if (number === 0 && digests.length < digestBytes) return;
    if (number === 0) number = owners.add(owner, hashed);
    /** The last posting that remains, and the one after. */
    let last = 0;
    let at = owners.firstPosting(number);
    const join = (posting: number) => {
      if (last === 0) owners.setFirstPosting(number, posting);
      else postings.setNextOfOwner(last, posting);
      last = posting;
    };
    const drop = () => {
      const dropped = at;
      at = postings.nextOfOwner(dropped);
      postings.remove(dropped);
    };
    for (let offset = 0; offset + digestBytes <= digests.length; offset += digestBytes) {
      postings.select(digests, offset);
      while (at !== 0 && postings.isBefore(at)) drop();
      if (at !== 0 && postings.isSelected(at)) {
        join(at);
        at = postings.nextOfOwner(at);
      } else {
        join(postings.add(number));
      }
    }
    while (at !== 0) drop();
    if (last === 0) owners.remove(number);
    else postings.setNextOfOwner(last, 0);
  }

  return {
    put,
    remove: (owner) => put(owner, new Uint8Array()),
    match(digest) {
      const found: Owner[] = [];
      for (let posting = postings.first(digest); posting !== 0; posting = postings.next(posting)) {
        found.push(owners.get(postings.ownerOf(posting)));
      }
      return found;
    },
    get entries() {
      return postings.count;
    },
    get owners() {
      return owners.count;
    },
    get bytes() {
      return postings.bytes + owners.bytes;
    },
  };
}
