/** Reads the embedded form of a file in the protocol's own words: options, reserved names. The bundle calls it at first use. */
import { type DescFile, fromBinary } from "@bufbuild/protobuf";
import { protoCamelCase } from "@bufbuild/protobuf/reflect";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { type DescriptorProto, type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

export function embeddedProto(base64: string, dependencies: readonly DescFile[]): FileDescriptorProto {
  const proto = fromBinary(FileDescriptorProtoSchema, base64Decode(base64));
  // What the generator leaves out, since it follows from the rest.
  for (const message of proto.messageType) addJsonNames(message);
  proto.dependency = dependencies.map(({ name }) => `${name}.proto`);
  return proto;
}

function addJsonNames({ field, nestedType }: DescriptorProto): void {
  for (const one of field) if (!Object.hasOwn(one, "jsonName")) one.jsonName = protoCamelCase(one.name);
  for (const message of nestedType) addJsonNames(message);
}
