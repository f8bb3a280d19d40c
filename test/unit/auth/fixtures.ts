import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import {
  attachmentOf,
  CannotAttach,
  type Client,
  type FixedAttachment,
  type RequestDraft,
  type SigningAttachment,
} from "../../../src/auth/attachment.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";

export type Auth = NonNullable<MessageInitShape<typeof ProviderSchema>["auth"]>;
export type Kind = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;

export interface Setting {
  readonly auth: Auth;
  readonly kind: Kind;
  readonly client?: Client;
  readonly connectionConfig?: JsonObject;
  readonly nowMs?: number;
}

export const now = Date.UTC(2030, 0, 1);

export const providerOf = (auth: Auth) => create(ProviderSchema, { name: "example", auth });

export function attach({ auth, kind, nowMs = now, ...rest }: Setting) {
  const credentials = create(CredentialsSchema, { kind });
  return attachmentOf({ credentials, provider: providerOf(auth), nowMs, ...rest });
}

export function attachFixed(setting: Setting): FixedAttachment {
  const attachment = attach(setting);
  if (attachment.kind !== "fixed") throw new Error("is not fixed");
  return attachment;
}

export function attachSigning(setting: Setting): SigningAttachment {
  const attachment = attach(setting);
  if (attachment.kind !== "signing") throw new Error("is not signing");
  return attachment;
}

/** The message for the operator; any other error fails the test. */
export function refusalOf(setting: Setting): string {
  try {
    attach(setting);
  } catch (error) {
    if (error instanceof CannotAttach) return error.message;
    throw error;
  }
  throw new Error("was attached");
}

export function draftOf(method: string, url: string, rest: Partial<RequestDraft> = {}): RequestDraft {
  const [, scheme, host = "", path = "", query = ""] = /^(https?):\/\/([^/?]*)([^?]*)\??(.*)$/.exec(url) ?? [];
  if (scheme !== "https" && scheme !== "http") throw new Error("is no URL");
  const defaults = { headers: [], body: undefined, nowMs: now, nonce: "n0nce" };
  return { method, scheme, host, path, query, ...defaults, ...rest };
}

export const bytes = (text: string) => new TextEncoder().encode(text);
export const form = (body: string): Partial<RequestDraft> => ({
  headers: [["content-type", "application/x-www-form-urlencoded"]],
  body: bytes(body),
});

/** Key and certificate of the OAuth community's own RSA-SHA1 example. */
export const rsaKey = `-----BEGIN PRIVATE KEY-----
MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBALRiMLAh9iimur8V
A7qVvdqxevEuUkW4K+2KdMXmnQbG9Aa7k7eBjK1S+0LYmVjPKlJGNXHDGuy5Fw/d
7rjVJ0BLB+ubPK8iA/Tw3hLQgXMRRGRXXCn8ikfuQfjUS1uZSatdLB81mydBETlJ
hI6GH4twrbDJCR2Bwy/XWXgqgGRzAgMBAAECgYBYWVtleUzavkbrPjy0T5FMou8H
X9u2AC2ry8vD/l7cqedtwMPp9k7TubgNFo+NGvKsl2ynyprOZR1xjQ7WgrgVB+mm
uScOM/5HVceFuGRDhYTCObE+y1kxRloNYXnx3ei1zbeYLPCHdhxRYW7T0qcynNmw
rn05/KO2RLjgQNalsQJBANeA3Q4Nugqy4QBUCEC09SqylT2K9FrrItqL2QKc9v0Z
zO2uwllCbg0dwpVuYPYXYvikNHHg+aCWF+VXsb9rpPsCQQDWR9TT4ORdzoj+Nccn
qkMsDmzt0EfNaAOwHOmVJ2RVBspPcxt5iN4HI7HNeG6U5YsFBb+/GZbgfBT3kpNG
WPTpAkBI+gFhjfJvRw38n3g/+UeAkwMI2TJQS4n8+hid0uus3/zOjDySH3XHCUno
cn1xOJAyZODBo47E+67R4jV1/gzbAkEAklJaspRPXP877NssM5nAZMU0/O/NGCZ+
3jPgDUno6WbJn5cqm8MqWhW1xGkImgRk+fkDBquiq4gPiT898jusgQJAd5Zrr6Q8
AO/0isr/3aa6O6NLQxISLKcPDk2NOccAfS/xOtfOz4sJYM3+Bs4Io9+dZGSDCA54
Lw03eHTNQghS0A==
-----END PRIVATE KEY-----
`;
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBpjCCAQ+gAwIBAgIBATANBgkqhkiG9w0BAQUFADAZMRcwFQYDVQQDDA5UZXN0
IFByaW5jaXBhbDAeFw03MDAxMDEwODAwMDBaFw0zODEyMzEwODAwMDBaMBkxFzAV
BgNVBAMMDlRlc3QgUHJpbmNpcGFsMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKB
gQC0YjCwIfYoprq/FQO6lb3asXrxLlJFuCvtinTF5p0GxvQGu5O3gYytUvtC2JlY
zypSRjVxwxrsuRcP3e641SdASwfrmzyvIgP08N4S0IFzEURkV1wp/IpH7kH41Etb
mUmrXSwfNZsnQRE5SYSOhh+LcK2wyQkdgcMv11l4KoBkcwIDAQABMA0GCSqGSIb3
DQEBBQUAA4GBAGZLPEuJ5SiJ2ryq+CmEGOXfvlTtEL2nuGtr9PewxkgnOjZpUy+d
4TvuXJbNQc8f4AMWL/tO9w0Fk80rWKp9ea8/df4qMq5qlFWlx6yOLQxumNOmECKb
WpkUQDIDJEoFUzKMVuJf4KO/FJ345+BNLGgbJ6WujreoM1X/gYfdnJ/J
-----END CERTIFICATE-----
`;
