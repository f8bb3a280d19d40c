import { createRegistry, type DescFile, type Registry, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import type { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";

type Reflection = ServiceImpl<typeof ServerReflection>;
type ReflectionRequest = Parameters<Reflection["serverReflectionInfo"]>[0] extends AsyncIterable<infer R> ? R : never;

/** Lets tools such as `buf curl` read the API from the server. The two versions of the protocol differ only in name. */
export function reflectionService(roots: readonly DescFile[], services: readonly string[]): Reflection {
  const files = withDependencies(roots);
  // With the first question: adding files reads all of their descriptors.
  let made: Registry | undefined;
  const registryOf = (): Registry => {
    made ??= createRegistry(...files.values());
    return made;
  };

  function answer({ messageRequest }: ReflectionRequest) {
    switch (messageRequest.case) {
      case "listServices":
        return { case: "listServicesResponse" as const, value: { service: services.map((name) => ({ name })) } };
      case "fileByFilename":
        return describe(files.get(messageRequest.value));
      case "fileContainingSymbol":
        return describe(fileOf(registryOf(), messageRequest.value));
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = messageRequest.value;
        const registry = registryOf();
        const message = registry.getMessage(containingType);
        return describe(message && registry.getExtensionFor(message, extensionNumber)?.file);
      }
      case "allExtensionNumbersOfType": {
        const numbers = [...registryOf()].flatMap((desc) =>
          desc.kind === "extension" && desc.extendee.typeName === messageRequest.value ? [desc.number] : [],
        );
        const value = { baseTypeName: messageRequest.value, extensionNumber: numbers };
        return { case: "allExtensionNumbersResponse" as const, value };
      }
      default:
        return notFound("the request names no symbol, file or extension");
    }
  }

  return {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        yield { validHost: request.host, originalRequest: request, messageResponse: answer(request) };
      }
    },
  };
}

/** For a method or field, the symbol without its last part names the containing type. */
const fileOf = (registry: Registry, symbol: string): DescFile | undefined =>
  (registry.get(symbol) ?? registry.get(symbol.slice(0, Math.max(0, symbol.lastIndexOf(".")))))?.file;

/** Returns a file with all its imports, the file itself first. */
function describe(file: DescFile | undefined) {
  if (file === undefined) return notFound("no such symbol or file");
  const fileDescriptorProto = [...withDependencies([file]).values()].map(({ proto }) =>
    toBinary(FileDescriptorProtoSchema, proto),
  );
  return { case: "fileDescriptorResponse" as const, value: { fileDescriptorProto } };
}

const notFound = (errorMessage: string) => ({
  case: "errorResponse" as const,
  value: { errorCode: Code.NotFound, errorMessage },
});

function withDependencies(
  roots: readonly DescFile[],
  found = new Map<string, DescFile>(),
): ReadonlyMap<string, DescFile> {
  for (const file of roots) {
    const name = `${file.name}.proto`;
    if (found.has(name)) continue;
    found.set(name, file);
    withDependencies(file.dependencies, found);
  }
  return found;
}
