import type { Writable } from "node:stream";

/**
 * Limits the unsent bytes of a socket before the relay waits for `drain`. Node's own limit, 64 KiB, is as much as one
 * read of a body. With Node's limit, every read would pause and resume the source, even if the kernel took all bytes.
 */
const mostUnsentBytes = 128 * 1024;

/** Returns whether the stream takes more bytes now. If not, its `drain` event tells when. */
export const takesMore = ({ writableLength }: Writable): boolean => writableLength < mostUnsentBytes;
