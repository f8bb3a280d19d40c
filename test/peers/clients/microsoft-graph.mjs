// Drafts a mail, and reads messages of two pages.
import { Client, GraphError } from "@microsoft/microsoft-graph-client";

const { ADDRESS, KEY } = process.env;
// Without https the client sends no token, so that the key goes in a header of its own.
const client = Client.init({
  baseUrl: ADDRESS,
  authProvider: (done) => done(null, KEY),
  fetchOptions: { headers: { "latchkey-key": KEY } },
});
// Links to further pages name Microsoft's address.
const pathIn = (link) => link.replace("https://graph.microsoft.com/v1.0", "");

const made = await client.api("/me/messages").post({ subject: "Tea & ü" });
const first = await client.api("/me/messages").select("subject").top(1).get();
const second = await client.api(pathIn(first["@odata.nextLink"])).get();
const refusal = await client
  .api("/me/messages/missing")
  .get()
  .catch((error) => error);

console.log(
  JSON.stringify({
    written: made.id,
    read: [...first.value, ...second.value].map(({ subject }) => subject),
    refused: [refusal instanceof GraphError, refusal.statusCode, refusal.code],
  }),
);
