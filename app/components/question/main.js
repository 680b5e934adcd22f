// Mounts a question in the app: the answer becomes the component's state.

import { mounts } from "../shared/mounts.js";
import { askingView, showQuestion } from "./asking.js";

const viewAt = mounts((parent) => {
  const view = askingView(parent.querySelector(".question"), () => {});
  view.destroy = () => {};
  return view;
});

export default function render({ data, parentElement, setStateValue }) {
  const view = viewAt(parentElement);
  view.tell = (answered) => setStateValue("answered", answered);
  showQuestion(view, data);
  return view.destroy;
}
