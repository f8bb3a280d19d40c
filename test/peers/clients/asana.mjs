// Creates a task, and reads those of two pages.
import Asana from "asana";

const { ADDRESS, KEY } = process.env;
const client = new Asana.ApiClient();
client.basePath = `${ADDRESS}/api/1.0`;
client.authentications.token.accessToken = KEY;
const tasks = new Asana.TasksApi(client);

const made = await tasks.createTask({ data: { name: "Tea & ü", workspace: "1" } }, {});
const first = await tasks.getTasks({ project: "7", limit: 1 });
const second = await first.nextPage();
const refusal = await tasks.getTask("404", {}).catch((error) => error);

console.log(
  JSON.stringify({
    written: made.data.gid,
    read: [...first.data, ...second.data].map(({ gid }) => gid),
    refused: [refusal.status, refusal.response.body.errors[0].message],
  }),
);
