import "./style.css";

document.title = "Tandem";
