// The card of a store.
kinds.store = {
  section: "stores",
  build(view, card) {
    const article = frame(view, card);
    view.text = make("p", "faint");
    view.others = make("details");
    view.names = make("pre");
    view.others.append(make("summary", "", "Not followed"), view.names);
    article.append(view.text, view.others);
  },
  update(view, card) {
    showError(view, card.error);
    const full = card.complete && !card.not_followed;
    judge(
      view,
      card.error ? "bad" : full ? "good" : "warn",
      card.error ? "✕ no answer" : "● found",
    );
    const bound = card.complete ? "" : " The search ended at its bound: use a longer prefix.";
    put(view.text, `${card.followed} followed, ${card.not_followed} not.${bound}`);
    view.others.hidden = !card.others.length;
    put(view.names, card.others.join("\n"));
  },
  tick() {},
};
