import { ConnectionError, errorCodes } from "./error-codes.ts";
import { defaultWindow, maxFrameBytes, maxWindow, settingIds } from "./frames.ts";

/** Settings in one frame. There are six, and a peer that sends hundreds means no good. */
const maxSettings = 32;
const settingBytes = 6;
const largestMaxFrameBytes = 2 ** 24 - 1;

/** What the peer has set (RFC 9113, 6.5). */
export class PeerSettings {
  readonly #isClient: boolean;
  hasArrived = false;
  headerTableSize = 4_096;
  initialWindow = defaultWindow;
  maxConcurrentStreams = Number.POSITIVE_INFINITY;

  /** `isClient`: the peer is a server. */
  constructor(isClient: boolean) {
    this.#isClient = isClient;
  }

  read(payload: Buffer): void {
    if (payload.length % settingBytes !== 0) {
      throw new ConnectionError(errorCodes.frameSizeError, "a SETTINGS frame has a wrong length");
    }
    if (payload.length > maxSettings * settingBytes) {
      throw new ConnectionError(errorCodes.enhanceYourCalm, "a SETTINGS frame has too many settings");
    }
    for (let at = 0; at < payload.length; at += settingBytes) {
      this.#take(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    }
    this.hasArrived = true;
  }

  #take(id: number, value: number): void {
    if (id === settingIds.headerTableSize) {
      this.headerTableSize = value;
    } else if (id === settingIds.enablePush) {
      if (value > 1 || (this.#isClient && value === 1)) throw invalid("ENABLE_PUSH");
    } else if (id === settingIds.maxConcurrentStreams) {
      this.maxConcurrentStreams = value;
    } else if (id === settingIds.initialWindowSize) {
      if (value > maxWindow) {
        throw new ConnectionError(errorCodes.flowControlError, "the peer's INITIAL_WINDOW_SIZE is too large");
      }
      this.initialWindow = value;
    } else if (id === settingIds.maxFrameSize) {
      // We never send larger frames than the smallest allowed value.
      if (value < maxFrameBytes || value > largestMaxFrameBytes) throw invalid("MAX_FRAME_SIZE");
    }
  }
}

const invalid = (name: string) => new ConnectionError(errorCodes.protocolError, `the peer's ${name} is not valid`);
