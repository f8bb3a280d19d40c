import type { IncomingHttpHeaders } from "node:http";
import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";

/**
 * Returns the description of a message whose list of messages is read as a list of bytes, which have the same format:
 * so the method reads its items itself. All rules of the message stay, and JSON has another format.
 */
export function withByteItems<M extends Message>(desc: DescMessage, list: string): GenMessage<M> {
  const asBytes = (field: DescField): DescField =>
    field.localName === list
      ? ({
          ...field,
          listKind: "scalar",
          scalar: ScalarType.BYTES,
          message: undefined,
          // In the bundle, a getter that a copy would lose.
          get proto() {
            return field.proto;
          },
          toString: () => String(field),
        } as unknown as DescField)
      : field;
  const fields = desc.fields.map(asBytes);
  const changed = new Map<unknown, DescField>(desc.fields.map((field, i) => [field, fields[i] ?? field]));
  const { kind, typeName, name, file, parent, oneofs, deprecated } = desc;
  const { nestedEnums, nestedMessages, nestedExtensions } = desc;
  return {
    kind,
    typeName,
    name,
    file,
    parent,
    oneofs,
    deprecated,
    nestedEnums,
    nestedMessages,
    nestedExtensions,
    fields,
    field: Object.fromEntries(fields.map((field) => [field.localName, field])),
    members: desc.members.map((member) => changed.get(member) ?? member),
    get proto() {
      return desc.proto;
    },
    toString: () => String(desc),
  } as unknown as GenMessage<M>;
}

const binary = /^application\/(?:proto|grpc(?:-web)?(?:\+proto)?)$/i;

/** Whether the one message of a request is binary, compressed or not. */
export const isBinary = (headers: IncomingHttpHeaders): boolean => binary.test(headers["content-type"] ?? "");
