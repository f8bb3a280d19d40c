/** Clients of other languages take messages of 4 MiB unless they are told otherwise. */
export const maxPageBytes = 2 * 1024 * 1024;
