import type { Writable } from "node:stream";

/**
 * So much may lie in a socket unsent before more is waited for. Node's own mark, 64 KiB, is what one read of a body
 * brings: judged by it every read would stop the reading and begin it anew, though the kernel had taken it all.
 */
const mostUnsentBytes = 128 * 1024;

/** Whether it takes more at once; if not, its `drain` says when. */
export const takesMore = ({ writableLength }: Writable): boolean => writableLength < mostUnsentBytes;
