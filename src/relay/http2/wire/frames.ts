/** RFC 9113, 6. */
export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const frameFlags = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

/** RFC 9113, 6.5.2. */
export const settingIds = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export const frameHeadBytes = 9;
/** The largest payload that we accept and send: the default of SETTINGS_MAX_FRAME_SIZE, which is also its minimum. */
export const maxFrameBytes = 16_384;
/** The flow-control window of a new connection and, without SETTINGS_INITIAL_WINDOW_SIZE, of a new stream. */
export const defaultWindow = 65_535;
export const maxWindow = 2 ** 31 - 1;
export const maxStreamId = 2 ** 31 - 1;

/** RFC 9113, 3.4. */
export const clientPreface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
