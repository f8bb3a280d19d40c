import { closeMessage, messages } from "../state/messages.ts";

export const Messages = () => (
  <div class="toasts" role="status" aria-live="polite">
    {messages.value.map(({ id, text, isBad }) => (
      <div key={id} class={isBad ? "toast bad" : "toast"}>
        <span>{text}</span>
        <button type="button" class="icon-button" aria-label="Close the message" onClick={() => closeMessage(id)}>
          ×
        </button>
      </div>
    ))}
  </div>
);
