/** Below 4 MiB, the default message limit of clients in other languages. */
export const maxPageBytes = 2 * 1024 * 1024;
