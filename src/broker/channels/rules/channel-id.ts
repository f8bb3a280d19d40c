import { randomBytes } from "node:crypto";

/** 132 random bits, in characters and a length that every known provider takes. */
export const newChannelId = (): string => randomBytes(21).toString("base64url").replace(/^-/, "_");
