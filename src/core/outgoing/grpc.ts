/**
 * Reports whether a request is a gRPC call, which requires HTTP/2. gRPC-Web does not count: it was made for HTTP/1.1.
 */
export const isGrpc = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/grpc(?:$|[+; ])/i.test(contentType);
