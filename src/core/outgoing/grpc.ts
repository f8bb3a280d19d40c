/** Whether a request is a call of gRPC, which goes over HTTP/2 alone. gRPC-Web is not: it was made for HTTP/1.1. */
export const isGrpc = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/grpc(?:$|[+; ])/i.test(contentType);
