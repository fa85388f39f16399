/** What a chart has left out so that the rest can be seen, and the button that shows it. */

export const Outliers = ({ text, isShown, toggle }: { text: string; isShown: boolean; toggle: () => void }) => (
  <p class="muted chart-note">
    {isShown ? "" : `${text} `}
    <button type="button" class="quiet" onClick={toggle}>{isShown ? "Leave outliers out" : "Show all"}</button>
  </p>
);
